package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// readSurvivors reads the judgements about surviving mutants: a line that names one in String's form, and below it, indented, "equivalent:
// why" if no test could notice it, or "accepted: why" if a test is not worth its cost.
func readSurvivors(file string) (map[string]string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	judged, name := map[string]string{}, ""
	for i, line := range strings.Split(string(text), "\n") {
		switch why, below := strings.CutPrefix(line, "\t"); {
		case strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "":
		case !below:
			name = line
		case name == "" || !strings.HasPrefix(why, "equivalent: ") && !strings.HasPrefix(why, "accepted: "):
			return nil, fmt.Errorf("%s:%d: below the name of a mutant, say equivalent: why or accepted: why", file, i+1)
		default:
			judged[name] = why
			name = ""
		}
	}
	if name != "" {
		return nil, fmt.Errorf("%s: %s is not judged", file, name)
	}
	return judged, nil
}

// report prints how many mutants survived and fails if they are too many, or if one of them is not judged.
func report(out io.Writer, drawn int, survived []*point, judged map[string]string) error {
	equivalent, accepted := 0, 0
	var open []string
	for _, p := range survived {
		switch why := judged[p.String()]; {
		case why == "":
			open = append(open, p.String())
		case strings.HasPrefix(why, "equivalent: "):
			equivalent++
		default:
			accepted++
		}
	}
	rest := drawn - equivalent
	alive := accepted + len(open)
	fmt.Fprintf(out, "%d mutants, %d of them equivalent; %d of the other %d survive, %.1f %%\n", drawn, equivalent, alive, rest, 100*float64(alive)/float64(max(1, rest)))
	switch {
	case len(open) > 0:
		return fmt.Errorf("%d survived that %s does not judge; test for them, or judge them:\n%s", len(open), survivorsFile, strings.Join(open, "\n"))
	case alive*100 > mostSurvivors*rest:
		return fmt.Errorf("more than %d %% survive", mostSurvivors)
	}
	return nil
}
