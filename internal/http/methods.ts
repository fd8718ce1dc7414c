/** The methods a path is served with, for the Allow header; empty when no route has this path. */
export function allowedMethods(
  routes: readonly { readonly method: string; readonly path: string }[],
  pathname: string,
): readonly string[] {
  const segments = pathname.replace(/\/$/, '').split('/')
  return routes.filter((route) => fits(route.path.split('/'), segments)).map((route) => route.method)
}

function fits(pattern: readonly string[], segments: readonly string[]): boolean {
  if (pattern.length !== segments.length) return false
  return pattern.every((part, index) =>
    part.startsWith(':') ? segments[index] !== '' : part === segments[index],
  )
}
