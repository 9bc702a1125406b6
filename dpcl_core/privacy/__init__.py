"""Protection of the people in the data: mechanisms, noise, accounting, the ledger, label spaces and the statement."""
