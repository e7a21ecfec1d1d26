package campaignrow

import (
	"cmp"
	"slices"
	"time"

	"godwit.dev/godwit/internal/campaigns/campaign"
	"godwit.dev/godwit/internal/sending/push"
)

// Counters in addition to those of outcomes, whose numbers are below 20.
const (
	Reactions   = 20 // + campaign.Reaction
	Unrecalled  = 30
	Corrected   = 31 // of the last correction
	Uncorrected = 32
	// ofGroup is the distance between the counters of groups: those of a group are its number times this, and the number of the counter.
	ofGroup     = 100
	secondsADay = 86400
)

// Day returns the number of a day in Unix time, for the counters of days.
func Day(t time.Time) int64 { return t.Unix() / secondsADay }

// Tally collects changes of campaigns' counters, to be written at the end of a transaction.
type Tally struct{ counts map[Count]int64 }

// Count names a counter.
type Count struct {
	Campaign      int64
	Channel, What int16
}

// Change is the amount by which a counter changes.
type Change struct {
	Count
	By int64
}

// Add counts.
func (t *Tally) Add(num int64, channel, what int16, n int64) {
	if t.counts == nil {
		t.counts = make(map[Count]int64)
	}
	t.counts[Count{num, channel, what}] += n
}

// Move moves a delivery from one outcome's counter to another's.
func (t *Tally) Move(num int64, channel int16, from, to campaign.Outcome) {
	t.Add(num, channel, int16(from), -1)
	t.Add(num, channel, int16(to), 1)
}

// MoveOf is Move for a delivery with these flags: it moves the delivery in its group's counters, too. There, one that is being sent is
// pending.
func (t *Tally) MoveOf(num int64, channel int16, flags int32, from, to campaign.Outcome) {
	t.Move(num, channel, from, to)
	if base := int16(GroupOf(flags)) * ofGroup; base > 0 {
		t.Add(num, channel, base+openAsPending(from), -1)
		t.Add(num, channel, base+openAsPending(to), 1)
	}
}

func openAsPending(o campaign.Outcome) int16 {
	if o == campaign.Sending {
		return int16(campaign.Pending)
	}
	return int16(o)
}

// Put counts a new delivery with these flags.
func (t *Tally) Put(num int64, channel int16, flags int32) {
	t.count(num, channel, flags, int16(campaign.Pending))
}

// React counts a reaction to a delivery with these flags.
func (t *Tally) React(num int64, channel int16, flags int32, r campaign.Reaction) {
	t.count(num, channel, flags, Reactions+int16(r))
}

func (t *Tally) count(num int64, channel int16, flags int32, what int16) {
	t.Add(num, channel, what, 1)
	if base := int16(GroupOf(flags)) * ofGroup; base > 0 {
		t.Add(num, channel, base+what, 1)
	}
}

// Changes returns the changed counters in the order of their keys, so that transactions do not wait for each other's counters in a circle.
func (t *Tally) Changes() []Change {
	list := make([]Change, 0, len(t.counts))
	for k, n := range t.counts {
		if n != 0 {
			list = append(list, Change{k, n})
		}
	}
	slices.SortFunc(list, func(a, b Change) int {
		return cmp.Or(cmp.Compare(a.Campaign, b.Campaign), cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.What, b.What))
	})
	return list
}

// OfDay returns the changes of the current day's counters, over all channels: they count deliveries that have ended.
func (t *Tally) OfDay() []Change {
	var days Tally
	for k, n := range t.counts {
		if n > 0 && k.What > int16(campaign.Sending) && k.What < Unrecalled {
			days.Add(k.Campaign, 0, k.What, n)
		}
	}
	return days.Changes()
}

// NewFigures returns the statistics of a campaign without deliveries.
func NewFigures() *campaign.Figures {
	return &campaign.Figures{Counts: make(map[campaign.Outcome]int64), Channels: make(map[push.Channel]map[campaign.Outcome]int64)}
}

// Figure adds a counter to a campaign's figures.
func Figure(f *campaign.Figures, channel, what int16, n int64) {
	if g := what / ofGroup; g > 0 {
		if int(g) < len(f.Groups) {
			figureOf(&f.Groups[g], what%ofGroup, n)
		}
		return
	}
	switch what {
	case Reactions + int16(campaign.Shown):
		f.Shown += n
	case Reactions + int16(campaign.Clicked):
		f.Clicked += n
	case Reactions + int16(campaign.Dismissed):
		f.Dismissed += n
	case Unrecalled:
		f.NotRecalled += n
	case Corrected:
		f.Corrected += n
	case Uncorrected:
		f.NotCorrected += n
	default:
		ch, o := ChannelOf(channel), campaign.Outcome(what) // written by Tally
		f.Counts[o] += n
		if f.Channels[ch] == nil {
			f.Channels[ch] = make(map[campaign.Outcome]int64)
		}
		f.Channels[ch][o] += n
	}
}

func figureOf(g *campaign.GroupFigures, what int16, n int64) {
	switch what {
	case Reactions + int16(campaign.Shown):
		g.Shown += n
	case Reactions + int16(campaign.Clicked):
		g.Clicked += n
	case Reactions + int16(campaign.Dismissed):
		g.Dismissed += n
	default:
		if g.Counts == nil {
			g.Counts = make(map[campaign.Outcome]int64)
		}
		g.Counts[campaign.Outcome(what)] += n // written by Tally
	}
}

// AddDay adds a day's counter to a list of days; the counters must be read in the order of days.
func AddDay(list []campaign.Day, number int64, what int16, n int64) []campaign.Day {
	day := time.Unix(number*secondsADay, 0).UTC()
	if len(list) == 0 || !list[len(list)-1].Day.Equal(day) {
		list = append(list, campaign.Day{Day: day, Outcomes: make(map[campaign.Outcome]int64), Reactions: make(map[campaign.Reaction]int64)})
	}
	d := &list[len(list)-1]
	switch {
	case what < Reactions:
		d.Outcomes[campaign.Outcome(what)] += n // written by Tally
	case what < Unrecalled:
		d.Reactions[campaign.Reaction(what-Reactions)] += n // written by Tally
	}
	return list
}
