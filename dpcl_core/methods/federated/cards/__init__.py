"""Cards of the federated family."""
