"""Split patterns: parsed, compiled to an automaton, matched."""
