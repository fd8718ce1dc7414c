import { resolve } from 'node:path'
import { poll } from '#internal/dev/index.ts'

const root = resolve(import.meta.dir, '../..')
const waitMsMax = 30_000

/** One of the binaries of `cmd` under test, as Kubernetes runs it. */
export interface TestProcess {
  readonly pid: number
  /** Standard output so far: the log. */
  output(): string
  /** Standard error so far. */
  errors(): string
  /** The lines of the log with this text, parsed. */
  lines(text: string): readonly Readonly<Record<string, unknown>>[]
  /** Waits until the log has a line with this text, and gives it. @throws with the log when the process ends or takes 30 s */
  logged(text: string): Promise<Readonly<Record<string, unknown>>>
  signal(signal: NodeJS.Signals): void
  /** Settles with the exit code once all output has been read; null after a signal that ended it. */
  readonly exited: Promise<number | null>
}

/** An API under test, with its addresses. */
export interface ApiProcess extends TestProcess {
  readonly url: string
  readonly opsUrl: string
}

/** Starts `cmd/<name>/main.ts` with `env` and nothing of ours beside it. The caller ends it. */
export function startProcess(
  name: 'api' | 'forwarder' | 'operator' | 'backoffice' | 'migrate',
  env: Readonly<Record<string, string>>,
): TestProcess {
  return startProgram([`cmd/${name}/main.ts`], env)
}

/** Starts a program of this repository with its arguments, as `startProcess` does. */
export function startProgram(
  program: readonly [path: string, ...args: string[]],
  env: Readonly<Record<string, string>>,
): TestProcess {
  const [name] = program
  return startCommand([process.execPath, ...program], env, name)
}

/** Starts any command in the repository's folder, as `startProcess` does; `name` is what errors call it. */
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

/** Nothing sends calls to a test's process that would have to turn away first. */
const quick = { LATCHKEY_API_PORT: '0', LATCHKEY_OPS_PORT: '0', LATCHKEY_SHUTDOWN_DELAY_SECONDS: '0' }

/** Starts the API on free ports and waits until it listens. The caller ends it. */
export async function startApiProcess(env: Readonly<Record<string, string>>): Promise<ApiProcess> {
  const started = startProcess('api', { ...quick, ...env })
  const { port, opsPort } = await started.logged('listening')
  return { ...started, url: `http://localhost:${port}`, opsUrl: `http://localhost:${opsPort}` }
}

/** The status of `/readyz` as soon as it is `wanted`, else the last one after 30 s; 0 where nobody answers. */
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

/** Waits until the API says that so many callers wait for busy keys; false after 30 s. */
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
