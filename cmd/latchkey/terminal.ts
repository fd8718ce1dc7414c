import { createInterface } from 'node:readline/promises'
import { Writable } from 'node:stream'
import type { Environment } from '#internal/config/index.ts'

export interface Terminal {
  readonly env: Environment
  /** Whether standard output shows colours and NO_COLOR is not set. */
  readonly isColoured: boolean
  say(text: string): void
  complain(text: string): void
  /** Reads standard input to its end. Returns undefined if it is longer than `inputBytesMax`. */
  read(): Promise<string | undefined>
  /** Asks a question. Absent if standard input is no terminal. Returns undefined for Ctrl-C and Ctrl-D. */
  readonly ask?: ((question: Question) => Promise<string | undefined>) | undefined
  /** Calls `listener` for each key until the returned function is called. Absent if input is no terminal. Ctrl-C ends the process. */
  readonly onKey?: ((listener: (key: string) => void) => () => void) | undefined
}

export interface Question {
  readonly text: string
  /** Hides the answer while it is typed. */
  readonly isSecret: boolean
}

/** Maximum bytes of standard input, which has only a key or a token. */
export const inputBytesMax = 64 * 1024

export function processTerminal(): Terminal {
  const { env, stdin, stdout, stderr } = process
  return {
    env,
    isColoured: stdout.isTTY && !env['NO_COLOR'] && env['TERM'] !== 'dumb',
    say: (text) => void stdout.write(`${text}\n`),
    complain: (text) => void stderr.write(`${text}\n`),
    read: readInput,
    ask: stdin.isTTY ? ask : undefined,
    onKey: stdin.isTTY ? onKey : undefined,
  }
}

const interrupts: ReadonlySet<string> = new Set(['\u0003', '\u0004'])

function onKey(listener: (key: string) => void): () => void {
  const { stdin } = process
  const hear = (bytes: Buffer) => {
    for (const key of bytes.toString()) {
      if (!interrupts.has(key)) listener(key)
      else {
        stop()
        process.kill(process.pid, 'SIGINT')
      }
    }
  }
  const stop = () => {
    stdin.off('data', hear)
    stdin.setRawMode(false)
    stdin.pause()
  }
  // In raw mode the terminal gives each key at once, and no signal for Ctrl-C.
  stdin.setRawMode(true)
  stdin.on('data', hear)
  return stop
}

async function readInput(): Promise<string | undefined> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of Bun.stdin.stream()) {
    bytes += chunk.byteLength
    if (bytes > inputBytesMax) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

/** Asks on standard error, so that the output of a command can be redirected. */
async function ask({ text, isSecret }: Question): Promise<string | undefined> {
  const { stdin, stderr } = process
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() })
  const lines = createInterface({ input: stdin, output: isSecret ? silent : stderr, terminal: true })
  const ended = new AbortController()
  for (const event of ['SIGINT', 'close'] as const) lines.on(event, () => ended.abort())
  if (isSecret) stderr.write(text)
  try {
    return await lines.question(isSecret ? '' : text, { signal: ended.signal })
  } catch (error) {
    if (ended.signal.aborted) return undefined
    throw error
  } finally {
    if (isSecret || ended.signal.aborted) stderr.write('\n')
    lines.close()
  }
}
