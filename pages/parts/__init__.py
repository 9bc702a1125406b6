"""Pieces that several pages share: header, privacy bar, figure strip, links, layout, the store behind them."""
