"""Questions about the passages of any collection, written by a language model and checked by code and by the model.

passages   which passages are asked about
prompts    what the model is asked to write
checks     whether a question, a yes-or-no question or a joined one can be used
writing    all of it with a model, many passages at once
rewording  the same questions as somebody asks who does not know the passage's words
dataset    questions and passages as evaluation and training read them
"""
