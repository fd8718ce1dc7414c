import { expect } from 'bun:test'
import { signedEvent } from '#clients/typescript/src/testing/index.ts'
import { blockNamed } from './page.ts'

/** Page with the commands that try the program of a framework's page. */
export const frameworksPage = 'docs/guides/frameworks/index.md'

/** Sends requests with one key, and the request that the page of frameworks shows, to `/charges` of a program. */
export async function expectGuarded(url: string): Promise<void> {
  const key = `"${crypto.randomUUID()}"`
  const post = async (user: string, amount = 4200) => {
    const headers = { 'idempotency-key': key, 'x-user': user, 'content-type': 'application/json' }
    const response = await fetch(`${url}/charges`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ amount }),
    })
    return { status: response.status, ...((await response.json()) as { id: string; amount: number }) }
  }
  const [first, again, other] = [await post('ada'), await post('ada'), await post('bob')]
  expect(again).toEqual(first)
  expect([first, other]).toMatchObject([
    { status: 201, amount: 4200 },
    { status: 201, amount: 4200 },
  ])
  expect(other.id).not.toBe(first.id)
}

/** Runs the request of the page of frameworks twice, and expects the saved response. */
export async function expectShownRequest(url: string): Promise<void> {
  const command = blockNamed(frameworksPage, 'request')
    .text.replace('http://127.0.0.1:3000', url)
    .replace('a7f3', crypto.randomUUID())
  const answers = [await Bun.$`sh -c ${command}`.text(), await Bun.$`sh -c ${command}`.text()]
  expect(answers.map((text) => text.startsWith('HTTP/1.1 201'))).toEqual([true, true])
  expect(answers.map((text) => /^idempotent-replayed: true/im.test(text))).toEqual([false, true])
}

/** Delivers an event twice, and one with another signature. Returns the event's id. */
export async function expectReceived(url: string, secret: string): Promise<string> {
  const id = `evt_${crypto.randomUUID()}`
  for (const [signedBy, status] of [
    [secret, 204],
    [secret, 204],
    [`whsec_${btoa('x'.repeat(24))}`, 400],
  ] as const) {
    const delivery = signedEvent('payment.succeeded', { secret: signedBy, id })
    expect((await fetch(url, delivery)).status).toBe(status)
  }
  return id
}
