"""One module per command: HELP, add_arguments(parser), run(args) -> JSON-ready dict, summary(result) ->
text.
"""
