// Command lua runs a health check of Argo CD in the Lua engine of Argo CD. Reads {"script": …, "object": …} and prints the returned table.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	lua "github.com/yuin/gopher-lua"
)

type input struct {
	Script string `json:"script"`
	Object any    `json:"object"`
}

func main() {
	var given input
	if err := json.NewDecoder(os.Stdin).Decode(&given); err != nil {
		exit(err)
	}
	state := lua.NewState(lua.Options{SkipOpenLibs: true})
	defer state.Close()
	// The libraries that Argo CD opens for health checks.
	for name, open := range map[string]lua.LGFunction{
		lua.LoadLibName: lua.OpenPackage, lua.BaseLibName: lua.OpenBase, lua.TabLibName: lua.OpenTable,
	} {
		state.Push(state.NewFunction(open))
		state.Push(lua.LString(name))
		state.Call(1, 0)
	}
	state.SetGlobal("obj", valueOf(state, given.Object))
	if err := state.DoString(given.Script); err != nil {
		exit(err)
	}
	result, ok := state.Get(-1).(*lua.LTable)
	if !ok {
		exit(fmt.Errorf("the script returns a %s", state.Get(-1).Type()))
	}
	members := map[string]string{}
	result.ForEach(func(key, value lua.LValue) { members[key.String()] = value.String() })
	if err := json.NewEncoder(os.Stdout).Encode(members); err != nil {
		exit(err)
	}
}

func valueOf(state *lua.LState, value any) lua.LValue {
	switch given := value.(type) {
	case bool:
		return lua.LBool(given)
	case float64:
		return lua.LNumber(given)
	case string:
		return lua.LString(given)
	case []any:
		table := state.NewTable()
		for _, each := range given {
			table.Append(valueOf(state, each))
		}
		return table
	case map[string]any:
		table := state.NewTable()
		for name, each := range given {
			table.RawSetString(name, valueOf(state, each))
		}
		return table
	}
	return lua.LNil
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
