import { isJsonObject } from '#internal/base/index.ts'
import { parseObject, type Selection, selectors } from './client.ts'
import { type KubeFailure, readWatchError, unavailable } from './failure.ts'
import type { KubeStream } from './request.ts'
import { collectionPath, type KubeObject, type Resource } from './resource.ts'
import type { Transport } from './transport.ts'
import type { Timing } from './waits.ts'

export type WatchEnd =
  | { readonly kind: 'closed' }
  /** Silent for too long, or longer than `timeoutSeconds`: the connection counts as dead. */
  | { readonly kind: 'stalled' }
  | { readonly kind: 'stopped' }
  | { readonly kind: 'failed'; readonly failure: KubeFailure }

/** The callbacks must not throw. */
export interface WatchOptions<T extends KubeObject> {
  readonly transport: Transport
  readonly of: Resource<T>
  readonly selection: Selection
  readonly resourceVersion: string
  /** Duration of the watch: 300 to 600 limits the delay after an unnoticed loss of the connection, and the load of restarted watches. */
  readonly timeoutSeconds: number
  /** Called in order. */
  readonly onEvent: (event: { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }) => void
  /** A new watch that starts at this version misses no change. */
  readonly onPosition: (resourceVersion: string) => void
  readonly onActivity: () => void
  readonly signal: AbortSignal
  readonly timing: Timing
}

/** Added to `timeoutSeconds` before the watch counts as stalled. */
const graceMs = 30_000
/** Maximum silence after a bookmark. The server sends a bookmark each minute (kube-apiserver 1.34, cacher). */
const quietMsMaxWithBookmarks = 180_000
const openMsMax = 30_000
/** Maximum bytes of a line. etcd limits an object to 1.5 MiB by default; JSON and managed fields can double that size. */
const lineBytesMax = 16 * 1024 * 1024

/** Runs one watch. Never rejects. `stalled`: after `timeoutSeconds` + 30 s, or after 3 min without data that follow a bookmark. */
export async function watchOnce<T extends KubeObject>(options: WatchOptions<T>): Promise<WatchEnd> {
  const { transport, of, selection, resourceVersion, timeoutSeconds, signal } = options
  const opened = await transport.open({
    path: collectionPath(of, selection.namespace),
    query: {
      ...selectors(selection),
      watch: 'true',
      resourceVersion,
      allowWatchBookmarks: 'true',
      timeoutSeconds: String(timeoutSeconds),
    },
    secret: of.secret,
    msMax: openMsMax,
    signal,
  })
  if (signal.aborted && opened.kind !== 'ok') return { kind: 'stopped' }
  if (opened.kind !== 'ok') return { kind: 'failed', failure: opened }
  options.onActivity()
  const stream = opened.value
  try {
    return await new Watch(options, stream).run()
  } finally {
    await stream.close()
  }
}

class Watch<T extends KubeObject> {
  readonly #options: WatchOptions<T>
  readonly #stream: KubeStream
  readonly #lines = new JsonLines(lineBytesMax)
  readonly #endsAtMs: number
  #bookmarked = false

  constructor(options: WatchOptions<T>, stream: KubeStream) {
    this.#options = options
    this.#stream = stream
    this.#endsAtMs = options.timing.now() + options.timeoutSeconds * 1000 + graceMs
  }

  async run(): Promise<WatchEnd> {
    for (;;) {
      const read = await this.#read()
      if (read.kind !== 'bytes') return read
      this.#options.onActivity()
      for (const line of this.#lines.push(read.bytes)) {
        const end =
          line.kind === 'value' ? this.#take(line.value) : failed(unavailable(`the watch sent ${line.why}`))
        if (end) return end
      }
    }
  }

  async #read(): Promise<WatchEnd | { readonly kind: 'bytes'; readonly bytes: Uint8Array }> {
    const { signal, timing } = this.#options
    if (signal.aborted) return { kind: 'stopped' }
    const leftMs = this.#endsAtMs - timing.now()
    const quietMsMax = this.#bookmarked ? Math.min(leftMs, quietMsMaxWithBookmarks) : leftMs
    const settled = new AbortController()
    const settle = () => settled.abort()
    signal.addEventListener('abort', settle, { once: true })
    const silence = timing
      .sleep(quietMsMax, settled.signal)
      .then((): WatchEnd => ({ kind: signal.aborted ? 'stopped' : 'stalled' }))
    const bytes = this.#stream.read().then(
      (value) => (value ? ({ kind: 'bytes', bytes: value } as const) : ({ kind: 'closed' } as const)),
      () => failed(unavailable('the connection of the watch broke')),
    )
    const first = await Promise.race([bytes, silence])
    signal.removeEventListener('abort', settle)
    settle()
    return first
  }

  /** Returns a result if the line ends the watch. */
  #take(line: unknown): WatchEnd | undefined {
    const { of, onEvent, onPosition } = this.#options
    const type = isJsonObject(line) ? line['type'] : undefined
    const object = isJsonObject(line) ? line['object'] : undefined
    if (type === 'ERROR') return failed(readWatchError(object))
    if (type === 'BOOKMARK') {
      this.#bookmarked = true
      const version =
        isJsonObject(object) && isJsonObject(object['metadata']) && object['metadata']['resourceVersion']
      if (typeof version === 'string') onPosition(version)
      return undefined
    }
    const parsed = parseObject(of, object)
    if (type !== 'ADDED' && type !== 'MODIFIED' && type !== 'DELETED')
      return failed(unavailable('the watch sent a line of an unknown type'))
    if (parsed.kind !== 'ok') return failed(parsed)
    onEvent({ type, object: parsed.value })
    const version = parsed.value.metadata.resourceVersion
    if (version !== undefined) onPosition(version)
    return undefined
  }
}

function failed(failure: KubeFailure): WatchEnd {
  return { kind: 'failed', failure }
}

/** After `broken`, callers must not read further lines. */
export type JsonLine =
  | { readonly kind: 'value'; readonly value: unknown }
  | {
      readonly kind: 'broken'
      readonly why: 'a line that is not JSON' | 'a line that exceeds the maximum length'
    }

const newline = 10

export class JsonLines {
  readonly #lineBytesMax: number
  #parts: Uint8Array[] = []
  #bytes = 0

  constructor(bytesMax: number) {
    this.#lineBytesMax = bytesMax
  }

  push(bytes: Uint8Array): JsonLine[] {
    const lines: JsonLine[] = []
    let from = 0
    for (let to = bytes.indexOf(newline); to >= 0; to = bytes.indexOf(newline, from)) {
      this.#hold(bytes.subarray(from, to))
      from = to + 1
      const line = this.#take()
      if (line !== undefined) lines.push(line)
      if (line?.kind === 'broken') return lines
    }
    this.#hold(bytes.subarray(from))
    if (this.#bytes > this.#lineBytesMax)
      lines.push({ kind: 'broken', why: 'a line that exceeds the maximum length' })
    return lines
  }

  #hold(part: Uint8Array): void {
    if (part.length === 0) return
    this.#parts.push(part)
    this.#bytes += part.length
  }

  #take(): JsonLine | undefined {
    const tooLong = this.#bytes > this.#lineBytesMax
    const text = tooLong ? '' : Buffer.concat(this.#parts).toString('utf8')
    this.#parts = []
    this.#bytes = 0
    if (tooLong) return { kind: 'broken', why: 'a line that exceeds the maximum length' }
    if (text.trim() === '') return undefined
    try {
      return { kind: 'value', value: JSON.parse(text) as unknown }
    } catch {
      return { kind: 'broken', why: 'a line that is not JSON' }
    }
  }
}
