"""What pages let a visitor explore: maps, matching what-ifs, layers of a text, replays at another budget."""
