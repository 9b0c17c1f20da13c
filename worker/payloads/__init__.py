"""Values as JSON, before `codec` seals them and after it has opened them."""
