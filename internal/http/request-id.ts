import { randomToken } from '#internal/base/index.ts'

const wellFormed = /^[\w.:-]{1,128}$/

/**
 * Names requests: by the caller's own `X-Request-Id` where it is 1–128 letters, digits or `_ . : -`, else by a name that no
 * other process gives.
 */
export function createRequestIds(): (request: Request) => string {
  const process = randomToken(9)
  let count = 0
  return (request) => {
    const given = request.headers.get('x-request-id')
    if (given !== null && wellFormed.test(given)) return given
    count += 1
    return `${process}-${count.toString(36)}`
  }
}
