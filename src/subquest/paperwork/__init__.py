"""Papers of invented organisations: code decides the facts, a language model writes the papers and words the questions.

relations           what can be said of people, sites, contracts, equipment, incidents, projects and policies
organisation        the facts of one organisation, drawn at random
registers           its long tables: trips, orders, bookings
papers              which paper states which facts, and what a model is asked to write
fact_check          whether a text keeps every fact and adds none
questions           questions of 1 to 4 hops over the facts, with their plans
computed_questions  those whose answer must be computed from what their steps find
table_questions     those that need a query over a whole register
wording             whether a model's wording of a question can take its place
writing             all of it with a model, many organisations at once
dataset             the papers as files, read by the readers; questions and passages as training reads them
retelling           a world (`worlds`) in a model's words
"""
