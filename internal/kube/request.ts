/** Concurrency pool of a call. `lease`: renewals only; `list`: lists; `call`: all others. */
export type CallShare = 'lease' | 'list' | 'call'

/** One request to the API server. */
export interface KubeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body?: unknown
  /** Default `application/json`. A patch has to name its patch type. */
  readonly contentType?: string
  /** Leaves the server's message out of failures, since it may quote a Secret. */
  readonly secret?: boolean
  /** Bound of the call, including its wait for a slot of its share; default 30 s. A list may wait another 60 s for its slot. */
  readonly msMax?: number
  /** Bound of the decompressed response; default 64 MiB. */
  readonly bytesMax?: number
  /** Default `call`. */
  readonly share?: CallShare
  readonly signal?: AbortSignal | undefined
}

/** A request for a stream. */
export type WatchRequest = Pick<KubeRequest, 'path' | 'query' | 'secret' | 'msMax' | 'signal'>

/** A stream of bytes with one reader, which closes it. */
export interface KubeStream {
  /** Returns the next bytes, undefined at the end. @throws when the connection breaks */
  read(): Promise<Uint8Array | undefined>
  /** Ends the stream. Idempotent; never rejects. */
  close(): Promise<void>
}

/** Returns the query with its question mark, or an empty text. */
export function queryOf(query: KubeRequest['query']): string {
  if (!query || Object.keys(query).length === 0) return ''
  return `?${new URLSearchParams(query).toString()}`
}

/** Reads a stream to its end as text; undefined, and the stream is closed, when it is longer than `bytesMax`. @throws as `read` */
export async function readBounded(stream: KubeStream, bytesMax: number): Promise<string | undefined> {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for (;;) {
    const chunk = await stream.read()
    if (chunk === undefined) return Buffer.concat(chunks).toString('utf8')
    bytes += chunk.length
    if (bytes > bytesMax) {
      await stream.close()
      return undefined
    }
    chunks.push(chunk)
  }
}
