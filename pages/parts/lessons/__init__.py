"""The steps of the lessons on the page: one module per lesson, one function per step."""
