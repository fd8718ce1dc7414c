import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { freePort, poll } from '#internal/dev/index.ts'

/** A process under measurement. */
export interface Measured {
  readonly port: number
  readonly pid: number
  /** From its start until it was ready, in milliseconds. */
  readonly readyMs: number
  /** Asks it to end and waits until it is gone. Repeating it is safe. */
  stop(): Promise<void>
}

/** Environment of a process beside our own. */
export type ProcessEnv = Readonly<Record<string, string>>

const root = join(import.meta.dir, '../..')
const chartValues = join(root, 'charts/latchkey/values.yaml')
const readyMsMax = 20_000

/** The key ring of every process that is measured. */
export const keyRing = `bench:${Buffer.alloc(32, 1).toString('base64')}`

/** Starts a program of this folder that prints its port. @throws when it ends without having printed one */
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

/** Bun on the source, with options such as `--cpu-prof-md`, in place of the compiled program. */
export function sourceProgram(bunOptions: readonly string[]): readonly string[] {
  return [process.execPath, ...bunOptions, join(root, 'cmd/latchkey/main.ts')]
}

/** How a process is started. */
export interface HowToStart {
  readonly name: 'api' | 'forwarder'
  /** What stands for `latchkey` in its command line. */
  readonly latchkey: readonly string[]
  readonly env: ProcessEnv
}

/**
 * Starts one of our processes as Kubernetes runs it and waits until it is ready. `port` is that of the API's routes, which the
 * forwarder does not have. @throws when it is not ready after 20 s
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
    // As in production somebody reads the log; here it is thrown away by the kernel.
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

/** Bytes: the most memory that a pod gets by the chart, which tells it so. */
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
 * On Ctrl-C and the like stops what was started, then ends this process. What a stack's `stop` began is waited for; whatever
 * the run does meanwhile no longer counts.
 */
export function stopOnSignal(stop: () => Promise<void>): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.once(signal, () => void stop().finally(() => process.exit(1)))
}

async function end(child: Bun.Subprocess): Promise<void> {
  child.kill('SIGTERM')
  await child.exited
}

/** Resident memory of a process in bytes. */
export async function residentBytes(pid: number): Promise<number> {
  const text = await Bun.$`ps -o rss= -p ${pid}`.text()
  return Number(text) * 1024
}

/** What this machine is, for the table. */
export function machine(): string {
  return `${cpus().length} × ${cpus()[0]?.model ?? 'unknown processor'}, Bun ${Bun.version}`
}
