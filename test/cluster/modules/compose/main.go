// Command compose loads a Compose file as docker compose does, with the variables of its environment, and prints the names of the services.
// Fails with the loader's message if the file breaks the Compose Specification's schema or names something that it does not define.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:], cli.WithOsEnv)
	if err != nil {
		exit(err)
	}
	project, err := options.LoadProject(context.Background())
	if err != nil {
		exit(err)
	}
	for _, name := range project.ServiceNames() {
		fmt.Println(name)
	}
}

func exit(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}
