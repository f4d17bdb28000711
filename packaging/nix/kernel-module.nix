# zmeld.ko for one kernel: boot.extraModulePackages = [ (callPackage ... { inherit kernel; }) ].
{ lib, stdenv, kernel }:

stdenv.mkDerivation {
  pname = "zmeld-kmod-${kernel.version}";
  version = (lib.importTOML ../../Cargo.toml).workspace.package.version;
  src = lib.cleanSource ../../store;
  nativeBuildInputs = kernel.moduleBuildDependencies;
  hardeningDisable = [ "pic" ];
  buildPhase = ''
    make -C ${kernel.dev}/lib/modules/${kernel.modDirVersion}/build \
      M=$PWD/kmod CONFIG_DEBUG_INFO_BTF_MODULES= modules
  '';
  installPhase = ''
    install -D kmod/zmeld.ko \
      $out/lib/modules/${kernel.modDirVersion}/updates/zmeld.ko
  '';
  meta = {
    description = "Compressed block device that keeps identical pages once";
    license = lib.licenses.gpl2Plus;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
  };
}
