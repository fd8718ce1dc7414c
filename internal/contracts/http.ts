import type { PublicRoute } from '#internal/http/index.ts'
import { publicContract } from './public.v1.ts'

/** The route that serves the public contract to anybody. */
export function contractRoutes(): readonly PublicRoute[] {
  const body = JSON.stringify(publicContract())
  return [
    {
      method: 'GET',
      path: '/v1/openapi.json',
      access: 'public',
      bodyBytesMax: 0,
      handle: () => ({ kind: 'answer', status: 200, body, outcome: 'contract' }),
    },
  ]
}
