"""Methods of Lifelong DP (Lai et al. 2022), and their shared networks, projection, schedules, memory, losses and claims."""
