"""Cards of the family on pretrained features."""
