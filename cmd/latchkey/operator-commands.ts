import { addCheckCommand } from './check.ts'
import { addCheckRollbackCommand } from './check-rollback.ts'
import type { Cli, Program } from './cli.ts'
import { addOperatorsCommand } from './operators.ts'
import { addRemoveFinalizersCommand } from './remove-finalizers.ts'
import { addReplayCommand } from './replay.ts'
import { addSettingsCommand } from './settings.ts'

/** Adds the commands that are not called over HTTP. */
export function addOperatorCommands(program: Program, cli: Cli): void {
  program.commandsGroup('For operators, beside the stores:')
  for (const add of [addSettingsCommand, addReplayCommand, addCheckRollbackCommand]) add(program, cli)
  for (const add of [addCheckCommand, addRemoveFinalizersCommand, addOperatorsCommand]) add(program, cli)
}
