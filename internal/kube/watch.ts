import { parseObject, type Selection, selectors } from './client.ts'
import { isObject, type KubeFailure, readWatchError, unavailable } from './failure.ts'
import { JsonLines } from './json-lines.ts'
import type { KubeStream } from './request.ts'
import { collectionPath, type KubeObject, type Resource } from './resource.ts'
import type { Timing } from './timing.ts'
import type { Transport } from './transport.ts'

/** One change, as a watch tells it. */
export interface WatchEvent<T> {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly object: T
}

/** How a watch ended. */
export type WatchEnd =
  /** The server ended it in its time. */
  | { readonly kind: 'closed' }
  /** It was quiet for too long, or outlived the time that the server was given: the connection is taken for dead. */
  | { readonly kind: 'stalled' }
  /** The signal fired. */
  | { readonly kind: 'stopped' }
  | { readonly kind: 'failed'; readonly failure: KubeFailure }

/** What a watch is made of. */
export interface WatchOptions<T extends KubeObject> {
  readonly transport: Transport
  readonly of: Resource<T>
  readonly selection: Selection
  /** The moment to go on from. */
  readonly resourceVersion: string
  /** When the server is to end it; 300 to 600 keep a lost connection from lasting and the server from being busy. */
  readonly timeoutSeconds: number
  /** Called for each change, in order. Must not throw. */
  readonly onEvent: (event: WatchEvent<T>) => void
  /** Called with each moment that the watch has reached; a watch begun from there misses nothing. Must not throw. */
  readonly onMoment: (resourceVersion: string) => void
  /** Called whenever the server sent anything. Must not throw. */
  readonly onSign: () => void
  readonly signal: AbortSignal
  readonly timing: Timing
}

/** Beyond the time that the server was given. */
const graceMs = 30_000
/** A server that sends bookmarks does so each minute, whatever happens (kube-apiserver 1.34, cacher). */
const quietMsMaxWithBookmarks = 180_000
const openMsMax = 30_000
/** etcd takes objects of at most 1.5 MiB by default; JSON and the server's own fields may double that. */
const lineBytesMax = 16 * 1024 * 1024

/**
 * Watches once, until the server ends it, the connection dies or the signal fires. Never rejects, and leaves no connection.
 * It ends as stalled `timeoutSeconds` + 30 s after its begin, and after 3 min of silence once the server has sent a bookmark.
 */
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
  options.onSign()
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
      this.#options.onSign()
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

  /** Gives how the watch ends, if this line ends it. */
  #take(line: unknown): WatchEnd | undefined {
    const { of, onEvent, onMoment } = this.#options
    const type = isObject(line) ? line['type'] : undefined
    const object = isObject(line) ? line['object'] : undefined
    if (type === 'ERROR') return failed(readWatchError(object))
    if (type === 'BOOKMARK') {
      this.#bookmarked = true
      const version =
        isObject(object) && isObject(object['metadata']) && object['metadata']['resourceVersion']
      if (typeof version === 'string') onMoment(version)
      return undefined
    }
    const parsed = parseObject(of, object)
    if (type !== 'ADDED' && type !== 'MODIFIED' && type !== 'DELETED')
      return failed(unavailable('the watch sent a line of no known type'))
    if (parsed.kind !== 'ok') return failed(parsed)
    onEvent({ type, object: parsed.value })
    const version = parsed.value.metadata.resourceVersion
    if (version !== undefined) onMoment(version)
    return undefined
  }
}

function failed(failure: KubeFailure): WatchEnd {
  return { kind: 'failed', failure }
}
