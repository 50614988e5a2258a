"""One module per group of commands; each wires the rooms together and holds no logic of its own."""
