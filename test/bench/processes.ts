import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { freePort, poll } from '#internal/dev/index.ts'

/** Measured process. */
export interface Measured {
  readonly port: number
  readonly pid: number
  /** Time from start to readiness, in ms. */
  readonly readyMs: number
  /** Sends SIGTERM and waits for the exit. Safe to repeat. */
  stop(): Promise<void>
}

/** Additional environment of a process. */
export type ProcessEnv = Readonly<Record<string, string>>

const root = join(import.meta.dir, '../..')
const chartValues = join(root, 'charts/latchkey/values.yaml')
const readyMsMax = 20_000

/** Key ring of all measured processes. */
export const keyRing = `bench:${Buffer.alloc(32, 1).toString('base64')}`

/** Starts a program of this folder that prints its port. @throws if it ends without printing one */
export async function startPrinting(program: string, env: ProcessEnv): Promise<Measured> {
  const startedAt = performance.now()
  const child = Bun.spawn([process.execPath, join(import.meta.dir, program)], {
    env: { ...process.env, ...env },
    stdout: 'pipe',
    stderr: 'inherit',
  })
  const { value } = await child.stdout.getReader().read()
  const port = Number(new TextDecoder().decode(value))
  if (!(port > 0)) throw new Error(`${program} printed no port`)
  return { port, pid: child.pid, readyMs: performance.now() - startedAt, stop: () => end(child) }
}

/** Returns the command that runs the source by Bun, with options such as `--cpu-prof-md`, in place of the compiled program. */
export function sourceProgram(bunOptions: readonly string[]): readonly string[] {
  return [process.execPath, ...bunOptions, join(root, 'cmd/latchkey/main.ts')]
}

/** Options of a measured process. */
export interface HowToStart {
  readonly name: 'api' | 'forwarder'
  /** Command that replaces `latchkey`. */
  readonly latchkey: readonly string[]
  readonly env: ProcessEnv
}

/**
 * Starts a process as Kubernetes does and waits until it is ready. `port` is the port of the API's routes; the forwarder has none.
 * @throws if it is not ready after 20 s
 */
export async function startService({ name, latchkey, env }: HowToStart): Promise<Measured> {
  const [port, opsPort] = [await freePort(), await freePort()]
  const startedAt = performance.now()
  const child = Bun.spawn([...latchkey, name], {
    env: {
      ...process.env,
      LATCHKEY_API_PORT: String(port),
      LATCHKEY_OPS_PORT: String(opsPort),
      LATCHKEY_SHUTDOWN_DELAY_SECONDS: '0',
      LATCHKEY_KEY_RING: keyRing,
      BUN_JSC_forceRAMSize: String(memoryLimitOf(name)),
      ...env,
    },
    // Writes the log, as in production, but to /dev/null.
    stdout: Bun.file('/dev/null'),
    stderr: 'inherit',
  })
  const isReady = async () => {
    const answer = await fetch(`http://127.0.0.1:${opsPort}/readyz`).catch(() => undefined)
    return answer?.ok === true ? true : undefined
  }
  if ((await poll(isReady, { deadlineMs: readyMsMax, everyMs: 5 })) === undefined) {
    child.kill('SIGKILL')
    throw new Error(`${name} is not ready after ${readyMsMax} ms`)
  }
  return { port, pid: child.pid, readyMs: performance.now() - startedAt, stop: () => end(child) }
}

/** Returns the chart's memory limit of a process in bytes, which the chart also passes to the process. */
function memoryLimitOf(name: HowToStart['name']): number {
  const values = Bun.YAML.parse(readFileSync(chartValues, 'utf8')) as Record<string, ChartPod | undefined>
  const [, mebibytes] = /^(\d+)Mi$/.exec(values[name]?.resources?.limits?.memory ?? '') ?? []
  if (mebibytes === undefined) throw new Error(`${chartValues} has no memory limit in Mi for ${name}`)
  return Number(mebibytes) * 2 ** 20
}

interface ChartPod {
  readonly resources?: { readonly limits?: { readonly memory?: string } }
}

/**
 * Stops the started processes on a signal such as Ctrl-C, then exits. Waits for a `stop` in progress; the results of the run are
 * discarded.
 */
export function stopOnSignal(stop: () => Promise<void>): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => void stop().finally(() => process.exit(1)))
}

async function end(child: Bun.Subprocess): Promise<void> {
  child.kill('SIGTERM')
  await child.exited
}

/** Returns the resident memory of a process in bytes. */
export async function residentBytes(pid: number): Promise<number> {
  const text = await Bun.$`ps -o rss= -p ${pid}`.text()
  return Number(text) * 1024
}

/** Describes this machine, for the tables. */
export function machine(): string {
  return `${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}, Bun ${Bun.version}`
}
