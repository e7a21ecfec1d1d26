package app

import (
	"errors"

	"godwit.dev/godwit/internal/gateway/natsgate"
	"godwit.dev/godwit/internal/server/app/figures"
	"godwit.dev/godwit/internal/server/config"
	"godwit.dev/godwit/internal/server/module"
	"godwit.dev/godwit/internal/store"
)

// modules are the capabilities that join the server, in the order in which they start.
func modules(s *config.Config) []module.Module {
	return []module.Module{
		natsgate.Module(s.NATSAddr),
	}
}

// tablesOf are the tables that modules bring.
func tablesOf(list []module.Module) (tables []store.Tables) {
	for _, m := range list {
		if m.Tables.SQLite != nil {
			tables = append(tables, store.Tables{Module: m.Name, SQLite: m.Tables.SQLite, Postgres: m.Tables.Postgres})
		}
	}
	return tables
}

// services are what modules may use.
func services(s *figures.Server) *module.Services {
	c := s.Core
	return &module.Services{
		Log: s.Log, Now: s.Stores.Clock, Node: s.Node, Version: s.Version, Access: s.Access,
		Mailbox: c.Mailbox, Publisher: c.Publisher, Hub: c.Hub, Objects: c.Objects, Topics: c.Topics, Bus: c.Bus, Events: s.Stores.Events,
		Gate: s.Conns.Gate, Hellos: c.Hellos, Publishes: s.Conns.Publish, Draining: s.Draining, Own: s.Own,
		Databases: s.Stores.Database,
		ListenAddr: func(setting string) (string, error) {
			if p := s.Settings.AddrProblem(setting); p != "" {
				return "", errors.New(p)
			}
			return s.Settings.ListenAddr(setting), nil
		},
	}
}
