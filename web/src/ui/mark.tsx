import { logo, useBrand } from './brand';

/** The logo and the name of whoever runs this site. */
export function BrandMark() {
  const brand = useBrand();
  const picture = logo(brand);
  return (
    <>
      {picture && <img src={picture} alt="" className="logo" />}
      <span>{brand.name}</span>
    </>
  );
}

/** Where users find help, when the site says so. */
export function BrandLink() {
  const { link } = useBrand();
  if (!link) return null;
  return (
    <a href={link.url} target="_blank" rel="noreferrer noopener">
      {link.text}
    </a>
  );
}
