import { expect } from 'bun:test'
import { freePort, poll } from '#internal/dev/index.ts'

const listensMsMax = 20_000

/** Program that serves HTTP on the port in the environment variable `PORT`. */
export interface ServedProgram {
  readonly command: readonly string[]
  readonly cwd?: string
  readonly env?: Readonly<Record<string, string>>
  /** Default: a free one. */
  readonly port?: number
}

/** Runs a program until `use` returns, ends it by SIGTERM, and returns its standard output. */
export async function runServed(
  { command, cwd, env, port: given }: ServedProgram,
  use: (url: string) => Promise<void>,
): Promise<string> {
  const port = given ?? (await freePort())
  const child = Bun.spawn([...command], {
    ...(cwd !== undefined && { cwd }),
    env: { ...process.env, ...env, PORT: String(port) },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'inherit',
  })
  // Reads the output while the program runs, so that a full pipe does not block the program.
  const printed = child.stdout.text()
  const url = `http://127.0.0.1:${port}`
  try {
    const listens = () =>
      fetch(url).then(
        () => true,
        () => undefined,
      )
    expect(await poll(listens, { deadlineMs: listensMsMax })).toBe(true)
    await use(url)
  } finally {
    child.kill()
    await child.exited
  }
  return printed
}
