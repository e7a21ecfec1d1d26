package mqttgate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"godwit.dev/godwit/internal/gateway/gatetest"
	"godwit.dev/godwit/internal/gateway/mqttgate/wire"
	"godwit.dev/godwit/internal/messaging/topic"
)

// Send implements gatetest.Client.
func (c *session) Send(_ context.Context, text string) error {
	var f map[string]struct {
		IDs      []string
		After    any
		Reason   string
		Objects  []string
		Object   string
		Group    string
		Topics   []string
		Subjects []string
		Queue    string
	}
	if err := json.Unmarshal([]byte(text), &f); err != nil {
		return err
	}
	for name, v := range f {
		switch name {
		case "ack":
			return c.ack(v.IDs, wire.Success, nil)
		case "nack":
			props := wire.AppendUser(nil, "after", fmt.Sprint(v.After))
			return c.ack(v.IDs, wire.Unspecified, wire.AppendText(props, wire.ReasonString, v.Reason))
		case "register", "unregister":
			return c.register(name == "register", v.Group, v.Objects)
		case "object_ack":
			group := v.Group
			if group == "" {
				group = c.o.Group
			}
			return c.write(wire.AppendAck(nil, c.v, wire.PUBACK, c.objects["o/"+group+"/"+v.Object], wire.Success, nil))
		case "subscribe", "unsubscribe":
			return c.follow(name == "subscribe", "", v.Queue, v.Topics)
		case "serve", "unserve":
			return c.follow(name == "serve", "r/", v.Queue, v.Subjects)
		case "reply":
			return c.reply(text)
		case "ping":
			return c.write(wire.PingRequest)
		}
	}
	return fmt.Errorf("MQTT has no packet for %s", text)
}

func (c *session) ack(ids []string, r wire.Reason, props []byte) error {
	for _, id := range ids {
		if err := c.write(wire.AppendAck(nil, c.v, wire.PUBACK, c.notes[id], r, props)); err != nil {
			return err
		}
	}
	return nil
}

func (c *session) register(on bool, group string, objects []string) error {
	if group == "" {
		group = c.o.Group
	}
	names := make([]string, len(objects))
	for i, o := range objects {
		names[i] = "o/" + group + "/" + o
	}
	return c.filters(on, request{names: objects, group: group}, names)
}

func (c *session) follow(on bool, before, queue string, patterns []string) error {
	names := make([]string, len(patterns))
	for i, p := range patterns {
		names[i] = before + nameOf(p)
		if queue != "" {
			names[i] = "$share/" + queue + "/" + names[i]
		}
	}
	return c.filters(on, request{names: patterns, serve: before != ""}, names)
}

func (c *session) filters(on bool, of request, names []string) error {
	c.packet++
	c.asked[c.packet] = of
	if !on {
		return c.write(wire.AppendUnsubscribe(nil, c.v, c.packet, names...))
	}
	filters := make([]wire.Filter, len(names))
	for i, n := range names {
		filters[i] = wire.Filter{Name: []byte(n), QoS: 1}
	}
	return c.write(wire.AppendSubscribe(nil, c.v, c.packet, nil, filters...))
}

// reply publishes to the response topic of a request or a notification.
func (c *session) reply(text string) error {
	m, err := gatetest.ToProto(text)
	if err != nil {
		return err
	}
	r := m.GetReply()
	h := wire.Head{QoS: 1, Topic: "reply/r/" + r.GetRequestId()}
	if r.GetId() != "" {
		h.Topic = "reply/n/" + r.GetId()
	}
	if r.GetContentType() != "" {
		h.Properties = wire.AppendText(h.Properties, wire.ContentType, r.GetContentType())
	}
	if r.GetStatus() != 0 {
		h.Properties = wire.AppendUser(h.Properties, "status", fmt.Sprint(r.GetStatus()))
	}
	for name, v := range r.GetHeaders() {
		h.Properties = wire.AppendUser(h.Properties, "header", name+": "+v)
	}
	for _, f := range r.GetHeaderFields() {
		h.Properties = wire.AppendUser(h.Properties, "header", f.GetName()+": "+f.GetValue())
	}
	c.packet++
	h.ID = c.packet
	c.asked[h.ID] = request{reply: true}
	return c.write(append(wire.AppendPublish(nil, c.v, &h, len(r.GetData())), r.GetData()...))
}

// nameOf and topicOf turn topics of the app into names of MQTT and back.
func nameOf(pattern string) string {
	levels := strings.Split(pattern, ".")
	for i, l := range levels {
		switch l {
		case "*":
			levels[i] = "+"
		case ">":
			levels[i] = "#"
		default:
			levels[i] = topic.DecodeToken(l)
		}
	}
	return strings.Join(levels, "/")
}

func topicOf(name string) string {
	levels := strings.Split(name, "/")
	for i, l := range levels {
		levels[i] = topic.EncodeToken(l)
	}
	return strings.Join(levels, ".")
}
