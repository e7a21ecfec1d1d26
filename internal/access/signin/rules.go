package signin

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"godwit.dev/godwit/internal/notify/notification"
)

// Limits of the rules that give people their roles.
const (
	maxRules     = 256
	maxRulesText = 64 << 10
	maxClaim     = 256 // bytes of a claim's name or value
)

// Rule gives a role in an app, or the role Operator, to people with a certain claim from an OpenID Connect provider.
type Rule struct {
	Role  Role
	App   string // empty: the role is Operator
	Claim string
	Value string // text that the claim equals, or contains if it is a list
}

func (r Rule) String() string {
	where := r.App + " "
	if r.Role == Operator {
		where = ""
	}
	return r.Role.String() + " " + where + r.Claim + "=" + r.Value
}

// protocol lists the claims that are the same for all users of a provider, or that describe the sign-in instead of the person: a rule with
// one of these would match everybody.
var protocol = []string{
	"iss", "aud", "azp", "exp", "iat", "nbf", "jti", "nonce", "auth_time", "acr", "amr", "at_hash", "c_hash", "sid", "typ", "scope", "ver",
	"email_verified", "phone_number_verified", "locale", "zoneinfo", "updated_at",
}

// ParseRules parses rules as in the settings: "view shop groups=support; admin shop email=anna@example.org; operator groups=ops". Spaces around each part are
// ignored, and a value may contain any character but a semicolon.
func ParseRules(text string) ([]Rule, error) {
	if len(text) > maxRulesText {
		return nil, fmt.Errorf("has %d bytes; at most %d are allowed", len(text), maxRulesText)
	}
	var rules []Rule
	for one := range strings.SplitSeq(text, ";") {
		if one = strings.TrimSpace(one); one == "" {
			continue
		}
		r, err := parseRule(one)
		if err != nil {
			return nil, fmt.Errorf("has the rule %.80q, which %w", one, err)
		}
		if rules = append(rules, r); len(rules) > maxRules {
			return nil, fmt.Errorf("has more than %d rules", maxRules)
		}
	}
	return rules, nil
}

func parseRule(text string) (r Rule, err error) {
	role, rest, _ := strings.Cut(text, " ")
	app, claim, _ := strings.Cut(strings.TrimSpace(rest), " ")
	if role == Operator.String() {
		app, claim = "", rest
	}
	name, value, said := strings.Cut(strings.TrimSpace(claim), "=")
	r = Rule{App: app, Claim: strings.TrimSpace(name), Value: strings.TrimSpace(value)}
	var known bool
	switch r.Role, known = ParseRole(role); {
	case !known:
		return r, fmt.Errorf("begins with no role; use view, send, admin or operator")
	case r.Role != Operator && notification.CheckName("app", app) != nil:
		return r, fmt.Errorf("names no app after the role")
	case r.Role == Operator && strings.ContainsAny(r.Claim, " \t"):
		return r, fmt.Errorf("names an app: an operator's role is of the whole server; write it like operator groups=ops")
	case !said || r.Claim == "" || strings.ContainsAny(r.Claim, " \t"):
		return r, fmt.Errorf("says no claim; write it like groups=support")
	case r.Value == "" || r.Value == "*":
		return r, fmt.Errorf("would let everybody in whom the provider knows; say whom")
	case slices.Contains(protocol, r.Claim):
		return r, fmt.Errorf("would let everybody in: %s says nothing about who somebody is; use groups, email or sub", r.Claim)
	case r.Claim == "email" && (strings.Contains(r.Value, "*") || strings.HasPrefix(r.Value, "@")):
		return r, fmt.Errorf("is for no single address; use a group, or hd for a domain of Google")
	case len(r.Claim) > maxClaim || len(r.Value) > maxClaim:
		return r, fmt.Errorf("has a claim or a value longer than %d bytes", maxClaim)
	case r.Value == "true" || r.Value == "false":
		return r, fmt.Errorf("asks for yes or no, which is true of nearly everybody; use groups, email or sub")
	}
	return r, nil
}

// Fingerprint identifies a provider and its rules: after a change of the rules, people have to sign in again.
func Fingerprint(issuer, clientID string, rules []Rule) string {
	texts := []string{issuer, clientID}
	for _, r := range rules {
		texts = append(texts, r.String())
	}
	sum := sha256.Sum256([]byte(strings.Join(texts, "\n")))
	return hex.EncodeToString(sum[:8])
}

// Judge returns the apps in which a person with these claims has a role, with the highest role in each; under "" that of an operator. An email address counts only if the
// provider has verified it.
func Judge(rules []Rule, claims map[string]any) map[string]Role {
	apps := make(map[string]Role)
	for _, r := range rules {
		if r.Claim == "email" && !yes(claims["email_verified"]) {
			continue
		}
		if holds(claims[r.Claim], r.Value) {
			apps[r.App] = max(apps[r.App], r.Role)
		}
	}
	return apps
}

// yes reports whether a claim is true; some providers write it as a text.
func yes(claim any) bool { return claim == true || claim == "true" }

func holds(claim any, value string) bool {
	switch c := claim.(type) {
	case string:
		return c == value
	case []any:
		return slices.ContainsFunc(c, func(one any) bool { return one == value })
	}
	return false
}
