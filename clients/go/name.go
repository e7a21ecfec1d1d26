package godwit

import "fmt"

const maxName = 128 // bytes of an app, recipient, id, group, object, device or queue

// checkName applies the rules for names, so that a bad one is told here and not as a missing page.
func checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("%s is empty", what)
	}
	if len(name) > maxName {
		return fmt.Errorf("%s has %d bytes; at most %d are allowed", what, len(name), maxName)
	}
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case c == '.', c == '_', c == ':', c == '@', c == '+', c == '-':
		default:
			return fmt.Errorf("%s %q contains %q; allowed are A-Z a-z 0-9 . _ : @ + -", what, name, name[i:i+1])
		}
	}
	return nil
}

func (k objectKey) check() error {
	if err := checkName("group", k.group); err != nil {
		return err
	}
	return checkName("object", k.object)
}
