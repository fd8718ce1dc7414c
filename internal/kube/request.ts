/** Concurrency pool of a call. `lease`: renewals only; `list`: lists; `call`: all others. */
export type CallShare = 'lease' | 'list' | 'call'

/** One request to the API server. */
export interface KubeRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  /** Sent as JSON. */
  readonly body?: unknown
  /** Default `application/json`. A patch must say which patch it is: the server takes none for JSON Patch. */
  readonly contentType?: string
  /** The server's words about it may quote a Secret, and are left out of failures. */
  readonly secret?: boolean
  /** Bound of the call, its wait for a place in its share included; default 30 s. A list may wait another 60 s for its place. */
  readonly msMax?: number
  /** Bound of the answer once unpacked; default 64 MiB. */
  readonly bytesMax?: number
  /** Default `call`. */
  readonly share?: CallShare
  readonly signal?: AbortSignal | undefined
}

/** A request for a stream. */
export type WatchRequest = Pick<KubeRequest, 'path' | 'query' | 'secret' | 'msMax' | 'signal'>

/** A stream of bytes that its reader ends. One reader at a time. */
export interface KubeStream {
  /** The next bytes, undefined at the end. @throws when the connection breaks */
  read(): Promise<Uint8Array | undefined>
  /** Ends the stream. Repeating it is harmless; never rejects. */
  close(): Promise<void>
}

/** The query of a request with its question mark, or nothing. */
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
