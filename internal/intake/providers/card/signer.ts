import { createHmac } from 'node:crypto'

/** What a call is signed with. */
export interface CardTransmission {
  readonly body: Uint8Array
  /** One of the tenant's live secrets. */
  readonly secret: string
  /** When it is sent, in milliseconds since the epoch. */
  readonly atMs: number
}

/** Signs a call as the card provider's vendor does, for simulations: all headers of the call. */
export function signCard({ body, secret, atMs }: CardTransmission): Readonly<Record<string, string>> {
  const time = Math.floor(atMs / 1000)
  const hex = createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex')
  return { 'content-type': 'application/json', 'card-signature': `t=${time},v1=${hex}` }
}
