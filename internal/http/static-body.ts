import type { Answer } from './route.ts'

/** Body that does not change while the process runs, plain and compressed. */
export interface StaticBody {
  readonly plain: Uint8Array<ArrayBuffer>
  readonly gzipped: Uint8Array<ArrayBuffer>
}

/** Encodes and compresses a text once, instead of for each request. */
export function staticBody(text: string): StaticBody {
  const plain = Uint8Array.from(Buffer.from(text))
  return { plain, gzipped: Uint8Array.from(Bun.gzipSync(plain, { level: 9 })) }
}

/** Response with a static body, compressed if the caller accepts gzip. */
export function staticAnswer(
  { plain, gzipped }: StaticBody,
  request: Request,
  { headers, outcome }: { readonly headers: Readonly<Record<string, string>>; readonly outcome: string },
): Answer<Uint8Array<ArrayBuffer>> {
  const isGzip = acceptsGzip(request.headers.get('accept-encoding'))
  return {
    kind: 'answer',
    status: 200,
    outcome,
    body: isGzip ? gzipped : plain,
    headers: { ...headers, Vary: 'Accept-Encoding', ...(isGzip && { 'Content-Encoding': 'gzip' }) },
  }
}

/** Parses an `Accept-Encoding` header; `gzip;q=0` refuses gzip. */
export function acceptsGzip(acceptEncoding: string | null): boolean {
  return (acceptEncoding ?? '').split(',').some((part) => {
    const [name, weight = ''] = part.split(';').map((each) => each.trim().toLowerCase())
    return name === 'gzip' && !/^q=0(\.0*)?$/.test(weight)
  })
}
