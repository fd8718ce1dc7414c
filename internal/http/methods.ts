/**
 * The methods a path is served with, for the Allow header; empty when no route has this path. Whoever answers GET answers HEAD
 * with the same headers.
 */
export function allowedMethods(
  routes: readonly { readonly method: string; readonly path: string }[],
  pathname: string,
): readonly string[] {
  const segments = pathname.split('/')
  return routes
    .filter((route) => fits(route.path.split('/'), segments))
    .flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
}

function fits(pattern: readonly string[], segments: readonly string[]): boolean {
  if (pattern.length !== segments.length) return false
  return pattern.every((part, index) =>
    part.startsWith(':') ? segments[index] !== '' : part === segments[index],
  )
}
