import { resolve } from 'node:path'
import { poll } from '#internal/dev/index.ts'
import { bodyKeptBytesMax, type Delivery } from '#internal/dev/sink-deliveries.ts'
import { checkDelivery } from '../events/delivery-check.ts'
import { compiledProgram } from './compiled-program.ts'

/** Root of the repository. */
export const root = resolve(import.meta.dir, '../../..')
const readyMsMax = 90_000

/** Options of a dev server. */
export interface DevServerOptions {
  readonly dataDir: string
  /** Default Bun on `cmd/dev/main.ts` in `cwd`. */
  readonly argv?: readonly string[]
  /** Default the repository. */
  readonly cwd?: string
  /** Added to the tests' environment without settings and demo traffic; default: free ports. */
  readonly env?: Readonly<Record<string, string>>
}

/** URLs that a dev server prints. */
export interface DevAddresses {
  readonly api: string
  readonly ops: string
  readonly sink: string
}

/** Dev server under test. */
export interface DevServer {
  readonly pid: number
  /** Output so far. */
  output(): string
  /** Waits until it is ready and returns its URLs. @throws with the output if it ends or 90 s pass */
  ready(): Promise<DevAddresses>
  /** Waits until it prints a text. @throws with the output if it ends or 90 s pass */
  prints(text: string): Promise<void>
  /** Returns what the sink received, newest first, after comparing it with the published contract. */
  deliveries(): Promise<readonly Delivery[]>
  /** Sends a signal. */
  signal(signal: NodeJS.Signals): void
  /** Resolves to the exit code, or to null after a fatal signal. */
  readonly exited: Promise<number | null>
}

const freePorts = {
  LATCHKEY_API_PORT: '0',
  LATCHKEY_BACKOFFICE_PORT: '0',
  LATCHKEY_OPS_PORT: '0',
  LATCHKEY_DEV_SINK_PORT: '0',
}

/** Starts a dev server as a separate process. The caller ends it. */
export function startDevServer(options: DevServerOptions): DevServer {
  const argv = options.argv ?? [process.execPath, 'cmd/dev/main.ts']
  const child = Bun.spawn([...argv], {
    cwd: options.cwd ?? root,
    env: {
      ...inheritedEnv(),
      LATCHKEY_DATA_DIR: options.dataDir,
      LATCHKEY_DEV_DEMO: 'false',
      ...(options.env ?? freePorts),
    },
    stdin: 'ignore',
    stdout: 'pipe',
    stderr: 'pipe',
  })
  let output = ''
  const collect = async (stream: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder()
    for await (const bytes of stream) output += decoder.decode(bytes, { stream: true })
  }
  const collected = Promise.all([collect(child.stdout), collect(child.stderr)])
  let hasEnded = false
  const exited = Promise.all([child.exited, collected]).then(() => child.exitCode)
  void exited.then(() => {
    hasEnded = true
  })
  const find = async <T>(look: () => T | undefined): Promise<T> => {
    const found = await poll(() => look() ?? (hasEnded ? 'ended' : undefined), { deadlineMs: readyMsMax })
    if (found === undefined || found === 'ended')
      throw new Error(`the dev server did not print the expected text:\n${output}`)
    return found
  }
  return {
    pid: child.pid,
    output: () => output,
    ready: () => find(() => readAddresses(output)),
    prints: (text) => find(() => output.includes(text) || undefined).then(() => undefined),
    async deliveries() {
      const { sink } = await find(() => readAddresses(output))
      const { deliveries } = (await (await fetch(`${sink}/deliveries.json`)).json()) as {
        deliveries: readonly Delivery[]
      }
      for (const { headers, body, bodyBytes } of deliveries)
        if (bodyBytes <= bodyKeptBytesMax) checkDelivery({ headers: headersOf(headers), body })
      return deliveries
    },
    signal: (signal) => child.kill(signal),
    exited,
  }
}

function headersOf(pairs: Delivery['headers']): Headers {
  return new Headers(pairs.map(([name, value]): [string, string] => [name, value]))
}

function readAddresses(output: string): DevAddresses | undefined {
  const [, api] = /API\s+(http:\/\/127\.0\.0\.1:\d+)/.exec(output) ?? []
  const [, ops] = /Ops\s+(http:\/\/127\.0\.0\.1:\d+)/.exec(output) ?? []
  const [, sink] = /Sink\s+(http:\/\/127\.0\.0\.1:\d+)/.exec(output) ?? []
  return api && ops && sink && output.includes('Ctrl-C stops everything') ? { api, ops, sink } : undefined
}

/** Environment of this process without settings of Latchkey, which a test run has of its own. */
export function inheritedEnv(): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('LATCHKEY_')))
}

/** Returns that environment for commands of pages, whose `npm run latchkey` runs the compiled program. */
export function commandEnv(): Record<string, string | undefined> {
  return { ...inheritedEnv(), LATCHKEY_TEST_PROGRAM: compiledProgram() }
}
