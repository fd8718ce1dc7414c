/** A form's fields by name, each once. */
export type Form = Readonly<Record<string, string>>

const fieldsMax = 100

/** Takes a form's body apart; undefined for one that no page of ours sends: of another type, a field twice, too many, no UTF-8. */
export function parseForm(request: Request, body: Uint8Array): Form | undefined {
  const type = request.headers.get('content-type')?.split(';')[0]?.trim().toLowerCase()
  if (type !== 'application/x-www-form-urlencoded') return undefined
  const fields: Record<string, string> = Object.create(null) as Record<string, string>
  const pairs = [...new URLSearchParams(typeof body === 'string' ? body : Buffer.from(body).toString('utf8'))]
  if (pairs.length > fieldsMax) return undefined
  for (const [name, value] of pairs) {
    if (name in fields || value.includes('�')) return undefined
    fields[name] = value.trim()
  }
  return fields
}
