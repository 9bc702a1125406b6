"""What every method shares: the learner protocol, the card, public sizes, evaluation."""
