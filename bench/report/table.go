package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"text/tabwriter"
)

// WriteTable prints a result as a table for people.
func WriteTable(w io.Writer, r *Result) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", r.Title)
	for _, s := range r.Settings {
		fmt.Fprintf(&b, "  %s: %s", s.Name, s.Value)
	}
	fmt.Fprintf(&b, "\n  %s\n\n", r.Machine.String())
	tw := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	group := ""
	for i := range r.Figures {
		f := &r.Figures[i]
		if f.Group != group {
			group = f.Group
			fmt.Fprintf(tw, "%s\n", group)
		}
		spread := ""
		if len(f.Values) > 1 {
			spread = fmt.Sprintf("%s … %s", Format(f.Least), Format(f.Most))
		}
		ratio := ""
		if v, ok := r.Ratio(f); ok {
			ratio = Format(v) + " ×"
		}
		fmt.Fprintf(tw, "  %s\t%s\t%s\t%s\n", f.Name, strings.TrimSpace(Format(f.Median)+" "+f.Unit), spread, ratio)
	}
	_ = tw.Flush() // a strings.Builder takes everything
	if len(r.Figures) > 0 && len(r.Figures[0].Values) > 1 {
		b.WriteString("  medians; then least … most of the runs\n")
	}
	writeShares(&b, r)
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "  note: %s\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeShares prints the table by machine.
func writeShares(b *strings.Builder, r *Result) {
	if len(r.Shares) == 0 {
		return
	}
	b.WriteString("\nby machine\n")
	tw := tabwriter.NewWriter(b, 0, 4, 2, ' ', 0)
	fmt.Fprintf(tw, "  %s\n", strings.Join(shareTitles(), "\t"))
	for i := range r.Shares {
		fmt.Fprintf(tw, "  %s\n", strings.Join(shareCells(&r.Shares[i]), "\t"))
	}
	_ = tw.Flush() // a strings.Builder takes everything
	for _, m := range r.Machines {
		fmt.Fprintf(b, "  %s: %s\n", m.Name, m.Host)
	}
}

// Format formats a number with its significant digits only.
func Format(v float64) string {
	a := math.Abs(v)
	switch {
	case v == math.Trunc(v) && a < 1e15:
		return thousands(int64(v))
	case a >= 1000:
		return thousands(int64(math.Round(v)))
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case a >= 1:
		return strconv.FormatFloat(v, 'f', 2, 64)
	default:
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
}

func thousands(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}
