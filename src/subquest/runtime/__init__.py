"""How the roles of a system run: contexts, budgets, searches, tools, evidence, forced answers.

Systems are written against these modules; what a system of your own needs is exported by `subquest` itself.
"""
