package push

// Reaction is a receiver's reaction to a message. The numbers are stored.
type Reaction uint8

// Reactions.
const (
	Shown Reaction = iota
	Clicked
	Dismissed
	reactions
)

var reactionNames = [reactions]string{"shown", "clicked", "dismissed"}

func (r Reaction) String() string {
	if r < reactions {
		return reactionNames[r]
	}
	return "invalid"
}

// ParseReaction reads a reaction by its public name.
func ParseReaction(s string) (Reaction, bool) {
	for i, name := range reactionNames {
		if s == name {
			return Reaction(i), true // three of them
		}
	}
	return 0, false
}
