package signin_test

import (
	"testing"

	"godwit.dev/godwit/internal/access"
	"godwit.dev/godwit/internal/access/signin"
)

func TestAKeyMayAsMuchOnThePageAsOverTheAPI(t *testing.T) {
	for _, c := range []struct {
		key  access.Role
		want signin.Role
	}{
		{access.Read, signin.View},
		{access.Read | access.Worker, signin.View},
		{access.Publish, signin.Send},
		{access.Publish | access.Read | access.Worker, signin.Send},
		{access.Admin, signin.Admin},
		{access.Worker, 0},
		{0, 0},
	} {
		got, ok := signin.RoleOf(c.key)
		if got != c.want || ok != (c.want != 0) {
			t.Errorf("a key with the roles %q: %s, %t; want %s", c.key, got, ok, c.want)
		}
	}
}

func TestRolesIncludeThoseBefore(t *testing.T) {
	all := []signin.Role{signin.View, signin.Send, signin.Admin}
	for i, has := range all {
		for j, need := range all {
			if has.May(need) != (i >= j) {
				t.Errorf("%s may what needs %s: %t", has, need, has.May(need))
			}
		}
		if has.May(0) || signin.Role(0).May(has) {
			t.Errorf("%s: what is not said is allowed", has)
		}
		if got, ok := signin.ParseRole(has.String()); !ok || got != has {
			t.Errorf("%s is read as %s, %t", has, got, ok)
		}
	}
	for _, has := range append(all, 0) {
		if has.May(signin.Operator) || signin.Operator.May(has) {
			t.Errorf("an operator may what %s may, or the other way round", has)
		}
	}
	if got, ok := signin.ParseRole("operator"); !ok || got != signin.Operator || !got.May(signin.Operator) {
		t.Errorf("operator is read as %s, %t", got, ok)
	}
	for _, name := range []string{"", "none", "Admin", "publish"} {
		if got, ok := signin.ParseRole(name); ok {
			t.Errorf("%q is read as %s", name, got)
		}
	}
}
