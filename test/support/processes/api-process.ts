import { resolve } from 'node:path'
import { poll } from '#internal/dev/index.ts'
import { compiledProgram } from './compiled-program.ts'

const root = resolve(import.meta.dir, '../../..')
const waitMsMax = 30_000

/** Process of a program in `cmd`, run as in Kubernetes. */
export interface TestProcess {
  readonly pid: number
  /** Standard output so far: the log. */
  output(): string
  /** Standard error so far. */
  errors(): string
  /** Returns the parsed log lines with this text. */
  lines(text: string): readonly Readonly<Record<string, unknown>>[]
  /** Waits for a log line with this text and returns it. @throws with the log if the process ends or 30 s pass */
  logged(text: string): Promise<Readonly<Record<string, unknown>>>
  signal(signal: NodeJS.Signals): void
  /** Resolves to the exit code after all output was read, or to null after a fatal signal. */
  readonly exited: Promise<number | null>
}

/** API process with its URLs. */
export interface ApiProcess extends TestProcess {
  readonly url: string
  readonly opsUrl: string
}

/** Starts a process of the compiled program with `env` as its only settings. The caller ends it. */
export function startProcess(
  name: 'api' | 'forwarder' | 'operator' | 'backoffice' | 'migrate' | 'run',
  env: Readonly<Record<string, string>>,
): TestProcess {
  return startLatchkey([name], env)
}

/** Runs a command of the compiled program, such as `settings list`, as `startProcess` does. */
export function startLatchkey(args: readonly string[], env: Readonly<Record<string, string>>): TestProcess {
  return startCommand([compiledProgram(), ...args], env, `latchkey ${args[0]}`)
}

/** Starts a program of this repository with its arguments, as `startProcess` does. */
export function startProgram(
  program: readonly [path: string, ...args: string[]],
  env: Readonly<Record<string, string>>,
): TestProcess {
  const [name] = program
  return startCommand([process.execPath, ...program], env, name)
}

/** Starts any command in the repository's folder, as `startProcess` does; `name` appears in errors. */
export function startCommand(
  command: readonly string[],
  env: Readonly<Record<string, string>>,
  name: string,
): TestProcess {
  const child = Bun.spawn([...command], {
    cwd: root,
    env: { PATH: process.env['PATH'] ?? '', ...env },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const texts = { output: '', errors: '' }
  const collect = async (into: keyof typeof texts, stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder()
    for await (const bytes of stream) texts[into] += decoder.decode(bytes, { stream: true })
  }
  const collected = Promise.all([collect('output', child.stdout), collect('errors', child.stderr)])
  let hasEnded = false
  const exited = Promise.all([child.exited, collected]).then(() => {
    hasEnded = true
    return child.exitCode
  })
  const lines = (text: string) =>
    texts.output
      .split('\n')
      .filter((line) => line.includes(JSON.stringify(text)) && line.endsWith('}'))
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ msg }) => msg === text)
  return {
    pid: child.pid,
    output: () => texts.output,
    errors: () => texts.errors,
    lines,
    async logged(text) {
      const found = await poll(() => lines(text)[0] ?? (hasEnded ? 'ended' : undefined), {
        deadlineMs: waitMsMax,
      })
      if (found !== undefined && found !== 'ended') return found
      throw new Error(`${name} did not log "${text}":\n${texts.output}${texts.errors}`)
    },
    signal: (signal) => child.kill(signal),
    exited,
  }
}

/** Shutdown delay off: no load balancer has to notice the shutdown of a test's process. */
const quick = { LATCHKEY_API_PORT: '0', LATCHKEY_OPS_PORT: '0', LATCHKEY_SHUTDOWN_DELAY_SECONDS: '0' }

/** Starts the API on free ports and waits until it listens. The caller ends it. */
export async function startApiProcess(env: Readonly<Record<string, string>>): Promise<ApiProcess> {
  const started = startProcess('api', { ...quick, ...env })
  const { port, opsPort } = await started.logged('listening')
  return { ...started, url: `http://localhost:${port}`, opsUrl: `http://localhost:${opsPort}` }
}

/** Waits up to 30 s until the status of `/readyz` is `wanted`, and returns the last status; 0 without an answer. */
export async function readiness(opsUrl: string, wanted: number): Promise<number> {
  let last = 0
  await poll(
    async () => {
      last = await fetch(`${opsUrl}/readyz`).then(
        ({ status }) => status,
        () => 0,
      )
      return last === wanted || undefined
    },
    { deadlineMs: waitMsMax },
  )
  return last
}

/** Waits until the API reports `count` callers waiting for busy keys. Returns false after 30 s. */
export async function waitersAre(opsUrl: string, count: number): Promise<boolean> {
  const seen = await poll(
    async () => {
      const metrics = await (await fetch(`${opsUrl}/metrics`)).text()
      return metrics.includes(`\nlatchkey_records_waiters_count ${count}\n`) || undefined
    },
    { deadlineMs: waitMsMax },
  )
  return seen ?? false
}
