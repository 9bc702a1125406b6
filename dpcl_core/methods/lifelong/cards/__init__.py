"""Cards of the lifelong family."""
