/**
 * Fault of one call: it does not reach the service, its answer is lost, it gets no answer until its signal aborts, or another program
 * answers it.
 */
export type Fault = 'call lost' | 'answer lost' | 'no answer' | (() => Response)

/** A call as `METHOD path`, such as `PUT /v1/record`. */
type CallName = `${'POST' | 'PUT' | 'GET' | 'DELETE'} /${string}`

/** Fetch function before a real service, which lets chosen calls fail and records every call. */
export class FaultyFetch {
  readonly calls: CallName[] = []
  /** Token of the last granted lock. */
  lockToken = ''
  readonly #faults: { readonly name: CallName; readonly fault: Fault; left: number }[] = []

  /** Lets the next calls of this name fail. Faults of the same name follow each other. */
  fail(name: CallName, fault: Fault, times = 1): void {
    this.#faults.push({ name, fault, left: times })
  }

  /** Ends all faults. */
  recover(): void {
    this.#faults.length = 0
  }

  readonly fetch = async (url: string, init: RequestInit): Promise<Response> => {
    const name = `${init.method} ${new URL(url).pathname}` as CallName
    this.calls.push(name)
    const fault = this.#faults.find((each) => each.name === name && each.left > 0)
    if (fault) fault.left -= 1
    switch (fault?.fault) {
      case undefined:
        return this.#send(url, init)
      case 'call lost':
        throw new TypeError('connection refused')
      case 'answer lost':
        await this.#send(url, init)
        throw new TypeError('connection reset')
      case 'no answer':
        await this.#send(url, init)
        return new Promise((_resolve, reject) => {
          const { signal } = init
          const abort = () => reject(signal?.reason as Error)
          if (signal?.aborted) abort()
          signal?.addEventListener('abort', abort)
        })
      default:
        return fault?.fault() ?? this.#send(url, init)
    }
  }

  async #send(url: string, init: RequestInit): Promise<Response> {
    const response = await fetch(url, init)
    const text = await response.clone().text()
    this.lockToken = /"lockToken":"([^"]+)"/.exec(text)?.[1] ?? this.lockToken
    return response
  }
}

/** Returns an answer of the service with an error code. */
export function errorAnswer(status: number, code: string, headers: Record<string, string> = {}): Response {
  const body = { message: 'Refused by the test', error: 'Error', statusCode: status, code, requestId: 'r-1' }
  return Response.json(body, { status, headers })
}
