/**
 * Nest's decorators, written as the calls that they make. If this package imported Nest, there could be two copies. The
 * names are Nest's own and have not changed since version 6. `Reflect` has its metadata because Nest loads it first.
 */
interface Metadata {
  getMetadata(key: string, target: object, property?: string | symbol): unknown
  defineMetadata(key: string, value: unknown, target: object, property?: string | symbol): void
}

const reflect = (): Metadata => (globalThis as unknown as { Reflect: Metadata }).Reflect

let custom = 0

/** `createParamDecorator`: the factory gets Nest's execution context. */
export function paramDecorator(factory: (data: unknown, context: never) => unknown): () => ParameterDecorator {
  const type = `effectively-once-${custom++}`
  return () => (target, property, index) => {
    const name = '__routeArguments__'
    const args = reflect().getMetadata(name, target.constructor, property) as object | undefined
    const own = { [`${type}__customRouteArgs__:${index}`]: { index, factory, data: undefined, pipes: [] } }
    reflect().defineMetadata(name, { ...args, ...own }, target.constructor, property)
  }
}

/** `UseInterceptors` on a method or a whole controller. */
export function useInterceptor(interceptor: unknown, target: object): void {
  const name = '__interceptors__'
  const others = (reflect().getMetadata(name, target) ?? []) as unknown[]
  reflect().defineMetadata(name, [...others, interceptor], target)
}

/** `Inject` on a constructor parameter or a property. */
export function inject(token: unknown, target: object, property: string | symbol | undefined, index?: number): void {
  const [name, on, entry] =
    index === undefined
      ? ['self:properties_metadata', target.constructor, { key: property, type: token }]
      : ['self:paramtypes', target, { index, param: token }]
  const others = (reflect().getMetadata(name, on) ?? []) as unknown[]
  reflect().defineMetadata(name, [...others, entry], on)
}

/** `Injectable`, for a class whose constructor takes so many parameters. */
export function injectable(target: object, parameters: number): void {
  reflect().defineMetadata('__injectable__', true, target)
  reflect().defineMetadata(
    'design:paramtypes',
    Array.from({ length: parameters }, () => Object),
    target,
  )
}

export function setMetadata(name: string, value: unknown, target: object): void {
  reflect().defineMetadata(name, value, target)
}

export function readMetadata(name: string, target: object): unknown {
  return reflect().getMetadata(name, target)
}
