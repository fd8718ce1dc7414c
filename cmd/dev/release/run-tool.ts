import { resolve } from 'node:path'

const root = resolve(import.meta.dir, '../../..')

/** Runs a command in the repository's folder. @throws with its output if it fails */
export async function runTool(command: readonly string[]): Promise<void> {
  const child = Bun.spawn([...command], { cwd: root, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()])
  if ((await child.exited) !== 0) throw new Error(`${command.slice(0, 2).join(' ')} failed:\n${out}${err}`)
}
