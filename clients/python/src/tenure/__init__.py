"""Locks, semaphores and pools of resources from a Tenure server.

`tenure.temporal` is for the code of Temporal workflows.
"""
