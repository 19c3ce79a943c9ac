"""Ready-made roles: for use as they are, and to read as examples of the API.

Each module is one team. They are imported by name: `from rolecraft.roles.ready.debate import
Debater`.
"""
